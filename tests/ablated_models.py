"""Settings of the models that the ablations train; every fast path must serve all of them."""

ABLATED = [
    {"solver": "euler"},
    {"max_dt": 1 / 15},
    {"max_dt": 1 / 60},
    {"contact": False},
    {"continuous_residual": False},
    {"contact_residual": False},
    {"continuous_residual": False, "contact_residual": False},
    {"bounded": False},
    {"prior": False},
    {"prior": False, "bounded": False},
    {"prior": False, "bounded": False, "contact": False},
    {"prior": False, "bounded": False, "solver": "euler"},
]
