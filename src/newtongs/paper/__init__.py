"""The paper: benchmarks, training, evaluation, figures, and the report over all of them."""
