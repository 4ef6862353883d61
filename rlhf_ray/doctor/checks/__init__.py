"""Pure checks: the metrics of a stage in, a symptom or nothing out. Thresholds: doctor/rules.py."""
