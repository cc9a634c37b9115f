"""What a compressed table is compared with: one file a library, all of them listed in ``listed.py``."""
