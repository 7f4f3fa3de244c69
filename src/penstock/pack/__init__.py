"""Writing what a reader reads as shards: tar files of WebDataset, or ArrayRecord files."""

from penstock.pack.pack_job import Job as Job
from penstock.pack.pack_job import pack as pack
from penstock.pack.reencoding import Recoding as Recoding
