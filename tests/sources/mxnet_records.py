"""What MXNet's own library has written to golden/mxnet.rec and golden/walked.rec, and how.

MXNet has had no release since 2022 and needs an old NumPy, so its files are kept, and made like this:

    python3.11 -m venv old
    old/bin/pip install mxnet==1.9.1 numpy==1.23.5
    old/bin/python tests/sources/mxnet_records.py
"""

from pathlib import Path

GOLDEN = Path(__file__).parent / "golden"
MAGIC = (0xCED7230A).to_bytes(4, "little")

SINGLE = [(bytes(range(n)) + MAGIC * (n % 3) + b"end"[: n % 4], [n + 0.25]) for n in (0, 1, 4, 7, 8, 33, 200)]
"""Contents and labels of golden/mxnet.rec, which has an index. The number that begins a record is in some of them."""

SEVERAL = [(b"ab" * n + MAGIC, [0.5 * k for k in range(n)]) for n in (2, 3, 5)]
"""Those of golden/walked.rec, which has none."""


def main() -> None:
    """Write them."""
    from mxnet import recordio

    file = recordio.MXIndexedRecordIO(str(GOLDEN / "mxnet.idx"), str(GOLDEN / "mxnet.rec"), "w")
    for number, (content, (label,)) in enumerate(SINGLE):
        file.write_idx(number, recordio.pack(recordio.IRHeader(0, label, number, 0), content))
    file.close()
    file = recordio.MXRecordIO(str(GOLDEN / "walked.rec"), "w")
    for number, (content, labels) in enumerate(SEVERAL):
        file.write(recordio.pack(recordio.IRHeader(0, labels, number, 0), content))
    file.close()


if __name__ == "__main__":
    main()
