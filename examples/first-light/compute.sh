# Every process of the job runs this. pit's environment variables tell it its index and where the others are.
echo "process $PROCESS_INDEX of $NUM_PROCESSES_GROUP0, learning rate $(cat rate.txt)"
python3 meet.py
