"""pytest puts the folder of this file on sys.path, so the tests can import model.py."""
