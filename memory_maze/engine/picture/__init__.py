"""What the camera sees: rays through a grid of walls, spheres, textures and light."""
