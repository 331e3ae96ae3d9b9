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
		Use:   "node --file demands.yaml",
		Short: "Show how the pods of a node would share its spike headroom",
		Long: "Show how the pods of a node would share its spike headroom, by the strategy Node: what each container holds, wants and gets,\n" +
			"and who would have to go. The demands come from a file; no cluster is asked. With -o wide it shows the computation.\n" +
			"There is no finding: whatever the answer is, it is an answer.",
		Example: "  kubectl attune node --file demands.yaml -o json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if path == "" {
				return errors.New("which demands? add --file demands.yaml")
			}
			return shareFile(env, path)
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
