from penstock.operators.files.read import read as read
