"""Iterators: epochs, the last batch, state; `data_iterator`."""

from penstock.iterate.iterator import DataIterator as DataIterator
from penstock.iterate.iterator_factory import data_iterator as data_iterator
from penstock.iterate.iterator_factory import peekable_data_iterator as peekable_data_iterator
from penstock.iterate.peekable import PeekableDataIterator as PeekableDataIterator

DALIGenericIterator = DataIterator
DALIGenericPeekableIterator = PeekableDataIterator
