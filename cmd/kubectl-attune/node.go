package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"attune.io/attune/cmd/kubectl-attune/answers"
	"attune.io/attune/cmd/kubectl-attune/input"
	"attune.io/attune/recommender/node"
)

// newNode makes the verb node.
// With a name it asks the leader (package connect) and falls back to the API server (node_live.go). With
// --file it computes the shares itself (package answers) and needs no cluster.
func newNode(env *environment) *cobra.Command {
	var path, operator string
	command := &cobra.Command{
		Use:   "node (NAME | --file demands.yaml)",
		Short: "Show how the pods of a node share its spike headroom",
		Long: "Show how the pods of a node share its spike headroom, by the strategy Node: what each container holds, wants and gets,\n" +
			"and who has to go; -o wide shows why. Of a node in the cluster the operator's leader is asked what it decided last, which\n" +
			"takes the rights to get leases and to create pods/portforward in its namespace. Without them it shows what pods and\n" +
			"recommendations tell. With --file the demands come from a file, and no cluster is asked.\n" +
			"There is no finding: whatever the answer is, it is an answer.",
		Example:           "  kubectl attune node worker-1\n  kubectl attune node --file demands.yaml -o json",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: env.completeNodes,
		RunE: func(command *cobra.Command, names []string) error {
			switch {
			case path == "" && len(names) == 0:
				return errors.New("which node? give its name, or demands with --file demands.yaml")
			case path != "" && len(names) > 0:
				return errors.New("a node's name and --file don't go together: leave one out")
			case path != "":
				return shareFile(env, path)
			}
			return showNode(command.Context(), env, operator, names[0])
		},
	}
	command.Flags().StringVar(&path, "file", "", "YAML file with the node's allocatable resources and the demands of its pods")
	command.Flags().StringVar(&operator, "operator-namespace", "attune-system", "Namespace of the operator, whose leader is asked")
	return command
}

// shareFile shares a node among the demands of a file, by the same function as the node loop.
func shareFile(env *environment, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading the demands: %w", err)
	}
	demands, err := input.ParseDemands(text)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	// One Sharer for both calls: Explain describes the result of the last Share.
	var sharer node.Sharer
	result := sharer.Share(demands.Available, demands.Pods)
	return env.print(answers.NewNodeFile(demands, result, sharer.Explain))
}
