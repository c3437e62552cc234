"""Noisy messages between owners (HDP-VFL)."""
