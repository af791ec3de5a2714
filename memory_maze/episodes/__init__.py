"""Whole episodes of a policy: played on either engine, and scored."""
