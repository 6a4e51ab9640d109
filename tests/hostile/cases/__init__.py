"""The table of hostile cases: data alone; the tests beside this folder run them."""
