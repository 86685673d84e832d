"""`railsight bench snmp`: what reading a switch by SNMP costs, beside pysnmp alone and net-snmp."""
