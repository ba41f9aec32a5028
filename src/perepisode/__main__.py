from perepisode.cli import main

main()
