"""publishing: brokers learn what runs committed, step by step.

    served_partition   a claimed partition that brokers serve, as one look showed it
    row_steps          the steps that change the row instead of sending
"""
