"""Its presence puts this folder on the path of the tests, so that they can import model.py."""
