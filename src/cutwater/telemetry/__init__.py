"""What do tools for monitoring hear of a job?"""
