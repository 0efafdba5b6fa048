"""The sections; :mod:`newtongs.paper.report.registry` has their order."""
