"""Every picture of the data sets and of the paper."""
