"""Writing what a reader reads as shards: tar files of WebDataset, or ArrayRecord files."""

from penstock.pack.pack_job import PackJob as PackJob
from penstock.pack.pack_job import pack as pack
from penstock.pack.reencoding import Reencoding as Reencoding
