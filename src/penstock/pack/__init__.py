"""Writing what a reader reads as shards: tar files of WebDataset, or ArrayRecord files."""

from penstock.pack.job import Job as Job
from penstock.pack.job import pack as pack
from penstock.pack.recode import Recoding as Recoding
