"""Networks: what agents and sequence models are made of."""
