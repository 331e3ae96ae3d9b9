package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"attune.io/attune/cmd/kubectl-attune/demandfile"
	"attune.io/attune/recommender/node"
)

func newNode(env *environment) *cobra.Command {
	var path string
	command := &cobra.Command{
		Use:   "node (NAME | --file demands.yaml)",
		Short: "Show how the pods of a node share its spike headroom",
		Long: "Show how the pods of a node share its spike headroom, by the strategy Node: what each container holds, wants and gets,\n" +
			"and who has to go. Of a node in the cluster it shows what the operator has stored and what the pods ask for; with --file\n" +
			"the demands come from a file, no cluster is asked, and -o wide shows the computation.\n" +
			"There is no finding: whatever the answer is, it is an answer.",
		Example: "  kubectl attune node worker-1\n  kubectl attune node --file demands.yaml -o json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, names []string) error {
			switch {
			case path == "" && len(names) == 0:
				return errors.New("which node? give its name, or demands with --file demands.yaml")
			case path != "" && len(names) > 0:
				return errors.New("a node's name and --file don't go together: leave one out")
			case path != "":
				return shareFile(env, path)
			}
			return showNode(command.Context(), env, names[0])
		},
	}
	command.Flags().StringVar(&path, "file", "", "YAML file with the node's allocatable resources and the demands of its pods")
	return command
}

func shareFile(env *environment, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading the demands: %w", err)
	}
	demands, err := demandfile.Parse(text)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	var sharer node.Sharer
	result := sharer.Share(demands.Available, demands.Pods)
	return env.print(newNodeAnswer(demands, result, sharer.Explain))
}
