"""P20: what small real models answer through hobus, beside what they answer when they are asked plainly."""
