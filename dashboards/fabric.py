UID = "railsight-fabric"
