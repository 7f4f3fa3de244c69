"""Two processes that do not agree, in four ways; each prints the errors that it gets."""

import penstock.launch


def main():
    penstock.launch.initialize()
    import jax
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    from penstock import data_iterator, fn
    from penstock.errors import PenstockError

    process = jax.process_index()
    sharding = NamedSharding(Mesh(jax.devices(), ("batch",)), PartitionSpec("batch"))

    for how in ("definition", "batch", "shape", "whole"):

        def definition(shard_id, num_shards, how=how):
            x = np.zeros((9, 2 + process if how == "shape" else 2), np.float32)
            node = fn.readers.arrays(x, name="r")
            if how == "whole":
                return fn.normalize(node, batch=True)
            return node * 2.0 if how == "definition" and process else node

        try:
            data_iterator(definition, ["x"], sharding=sharding)(batch_size=4 + 2 * (how == "batch") * process)
        except PenstockError as error:
            print(f"{how}:", str(error).splitlines()[0])


if __name__ == "__main__":
    main()
