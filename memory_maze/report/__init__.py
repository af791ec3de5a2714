"""Reports: tables and figures as functions of result files."""
