"""Offline probing: does a sequence model's state know where the walls and the objects are?"""
