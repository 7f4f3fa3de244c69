from penstock.operators.file_io.read import read as read
