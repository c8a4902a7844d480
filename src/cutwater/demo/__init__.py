"""The fault-tolerant word count: a real job, real `kill -9`, and the failure-free count to compare with."""
