"""Models, shaped like scikit-learn's."""
