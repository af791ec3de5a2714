"""What comes of runs, of every kind: what a result file holds, how it is written, read and found."""
