// Command attune is the operator. attune webhook sizes pods at admission, attune controller tunes running ones,
// and attune without a command is both in one process.
//
// A process is built in this order, and each step needs the one before:
//
//  1. command.go picks the program (webhook, controller or both) and registers its flags, the Options.
//  2. Options.Validate refuses flags that cannot work (options.go).
//  3. Options.Complete asks the API server which namespaces may be watched, and returns the Config (config.go).
//  4. NewSystem builds a manager with everything that it runs: webhooks, loops, ports (system.go, webhooks.go,
//     loops.go).
//  5. System.Run starts the manager and ends with it.
//
// The package connects the parts and decides nothing about sizes. Where two loops exchange something, they do it
// over the boards (loops.go); no loop imports another one. Start reading at command.go, then system.go and
// loops.go.
package main

import (
	"fmt"
	"os"

	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	if err := command().ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, "attune:", err)
		os.Exit(1)
	}
}
