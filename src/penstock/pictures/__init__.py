"""Pictures of batches and samples, drawn by matplotlib."""

from penstock.pictures.output_info import OutputInfo as OutputInfo
from penstock.pictures.output_info import describe_output as describe_output
from penstock.pictures.show import DescribedBatch as DescribedBatch
from penstock.pictures.show import show as show
