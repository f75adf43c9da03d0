"""Predictions of launches: all SMs of a chip (`gpu`), and bands over draws (`launches`)."""

from .launches import Band, Prediction, predict_launch, predict_recording

__all__ = ["Band", "Prediction", "predict_launch", "predict_recording"]
