# What every process of the job runs. pit tells each who it is and where the others are.
echo "process $PROCESS_INDEX of $NUM_PROCESSES_GROUP0, learning rate $(cat rate.txt)"
python3 meet.py
