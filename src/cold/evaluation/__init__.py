"""How good the texts are: metrics, data sets, runs and tables."""
