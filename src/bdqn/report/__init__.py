"""Reports are made from run directories alone: nothing here trains, or imports torch or Gymnasium."""
