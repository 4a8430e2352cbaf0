"""publishing: brokers learn what runs committed, step by step.

    served_partition   a claimed partition that brokers serve, as one look showed it
    segment_copies     copies of segments, under new ids
    row_steps          the steps that change the row instead of sending
"""
