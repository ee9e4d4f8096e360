"""Sessions as an operator sees and steers them: their record, their commands, what a run waits for, their replay."""
