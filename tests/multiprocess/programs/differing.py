"""Program of two processes that differ in many ways; each prints its errors."""

import tempfile
from pathlib import Path

import penstock.launch


def main():
    penstock.launch.initialize()
    import jax
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    from penstock import LastBatchPolicy, data_iterator, fn
    from penstock.errors import DefinitionError, UsageError

    process = jax.process_index()
    sharding = NamedSharding(Mesh(jax.devices(), ("batch",)), PartitionSpec("batch"))

    def double(x):
        return x * 2

    def triple(x):
        return x * 3

    triple.__qualname__, triple.__name__ = double.__qualname__, double.__name__  # as in another version of a module
    function = triple if process else double

    def definition(how, x):
        node = fn.readers.arrays(x, name="r")
        if how == "code":
            return fn.python_function(node, function=function)
        return node * 2.0 if how == "definition" and process else node

    for how in ("definition", "code", "batch", "seed", "policy", "length", "content", "shape", "whole"):
        x = np.zeros((9 + (how == "length") * process, 2 + (how == "shape") * process), np.float32)
        x[3] = how == "content" and process
        batch = {"batch_size": 4 + 2 * (how == "batch") * process, "seed": 1 + (how == "seed") * process}
        policy = list(LastBatchPolicy)[(how == "policy") * process]
        options = {"reader_name": "r", "sharding": sharding, "last_batch_policy": policy}

        def shards(shard_id, num_shards, how=how, x=x):
            if how in ("length", "content"):
                return fn.readers.arrays(x, name="r", shard_id=shard_id, num_shards=num_shards)
            return fn.normalize(definition(how, x), batch=True) if how == "whole" else definition(how, x)

        try:
            data_iterator(shards, ["x"], **options)(**batch)
        except (DefinitionError, UsageError) as error:
            if isinstance(error, UsageError) == (how == "whole"):
                raise
            print(f"{how}:", " | ".join(line.strip() for line in str(error).splitlines()))
        if how in ("length", "content"):
            try:
                data_iterator(lambda x=x: definition(how, x), ["x"], **options)(**batch)
            except UsageError as error:
                print(f"whole {how}:", str(error).splitlines()[0])
    read_files(process, options)


def read_files(process, options):
    """Read a file of the same name in a folder of each process."""
    import numpy as np

    from penstock import data_iterator, fn
    from penstock.errors import UsageError

    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "x.npy", np.full(3, process))
        try:
            data_iterator(lambda: fn.readers.numpy(files=[f"{folder}/x.npy"], name="r"), ["x"], **options)(batch_size=4)
        except UsageError as error:
            print("files:", str(error).splitlines()[0])


if __name__ == "__main__":
    main()
