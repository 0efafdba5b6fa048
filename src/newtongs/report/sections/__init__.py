"""The sections, one file each; :mod:`newtongs.report.registry` names their order."""
