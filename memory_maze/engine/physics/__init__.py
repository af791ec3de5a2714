"""How the ball moves: its dynamics and its contacts with walls."""
