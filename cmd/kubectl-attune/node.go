package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"

	"github.com/spf13/cobra"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/cmd/kubectl-attune/input"
	"attune.io/attune/cmd/kubectl-attune/output"
	"attune.io/attune/internal/answers"
	"attune.io/attune/recommender/node"
)

// newNode returns the command node. With a name it asks the leader (package connect) and falls back to the API server.
// With --file it computes the shares itself (package output) and needs no cluster.
func newNode(env *environment) *cobra.Command {
	var path, operator string
	command := &cobra.Command{
		Use:   "node (NAME | --file demands.yaml)",
		Short: "Show how the pods of a node share its spike headroom",
		Long: "Show how the pods of a node share its spike headroom (strategy Node): what each container has, wants and gets, and which\n" +
			"pods attune evicts. -o wide shows why.\n\n" +
			"For a node of the cluster, it shows the last decision of the operator's leader. This needs permission to get leases and to\n" +
			"create pods/portforward in the operator's namespace; without it, the result has only data from pods and recommendations.\n" +
			"With --file, the demands come from a file, and no cluster is needed.",
		Example:           "  kubectl attune node worker-1\n  kubectl attune node --file demands.yaml -o json",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: env.completeNodes,
		RunE: func(command *cobra.Command, names []string) error {
			switch {
			case path == "" && len(names) == 0:
				return errors.New("no node specified: use NAME or --file demands.yaml")
			case path != "" && len(names) > 0:
				return errors.New("a node name cannot be combined with --file: specify one of them")
			case path != "":
				return shareFile(env, path)
			}
			return showNode(command.Context(), env, operator, names[0])
		},
	}
	command.Flags().StringVar(&path, "file", "", "YAML file with the node's allocatable resources and the demands of its pods")
	command.Flags().StringVar(&operator, "operator-namespace", "attune-system", "Namespace of the operator")
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
	// Use one Sharer for both calls, because Explain describes the result of the last Share.
	var sharer node.Sharer
	result := sharer.Share(demands.Available, demands.Pods)
	return env.print(output.NewNodeFile(demands, result, sharer.Explain))
}

// podsByNode is the field selector for the pods of a node.
const podsByNode = "spec.nodeName"

// showNode asks the leader. It reads from the API server if the leader cannot be asked, or has no pods that share the
// node. In the first case a note gives the reason.
func showNode(ctx context.Context, env *environment, operator, name string) error {
	c, err := env.cluster.Client()
	if err != nil {
		return err
	}
	// Ask the leader first: only the leader knows the grants and their reasons.
	answer, err := queryLeader(ctx, env, c, operator, name)
	if err == nil && len(answer.Pods) > 0 {
		return env.print(output.LiveNode{NodeAnswer: answer, Now: env.now()})
	}
	live, found := storedNode(ctx, c, name)
	if found != nil {
		return found
	}
	if err != nil {
		env.printNote("grants are not shown: %s", plain(err))
	}
	return env.print(output.LiveNode{NodeAnswer: live, Now: env.now()})
}

// storedNode reads a node, its pods and all recommendations from the API server. It needs the rights to get nodes, and
// to list pods and recommendations in all namespaces.
func storedNode(ctx context.Context, c client.Client, name string) (answers.NodeAnswer, error) {
	node := &corev1.Node{}
	if err := c.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		if apierrors.IsNotFound(err) {
			return answers.NodeAnswer{}, fmt.Errorf("node %s does not exist: kubectl get nodes lists the nodes", name)
		}
		return answers.NodeAnswer{}, fmt.Errorf("reading node %s: %w", name, err)
	}
	pods := &corev1.PodList{}
	if err := c.List(ctx, pods, client.MatchingFields{podsByNode: name}); err != nil {
		return answers.NodeAnswer{}, fmt.Errorf("listing the pods of node %s: %w", name, err)
	}
	recommendations := &v1alpha1.AttuneRecommendationList{}
	if err := c.List(ctx, recommendations); err != nil {
		return answers.NodeAnswer{}, fmt.Errorf("listing the recommendations: %w", err)
	}
	return output.StoredNode(node, pods.Items, recommendations.Items), nil
}

// queryLeader asks the operator's leader for its last decision about a node, through a forwarded port. operator is the
// operator's namespace. The error is one sentence; the caller then reads from the API server.
func queryLeader(ctx context.Context, env *environment, c client.Client, operator, node string) (answers.NodeAnswer, error) {
	// The lease names the pod, so one request is enough.
	pod, err := leader(ctx, c, operator)
	if err != nil {
		return answers.NodeAnswer{}, err
	}
	said, err := env.cluster.FetchPod(ctx, operator, pod, answers.DecisionsPort, answers.DecisionsPath+url.PathEscape(node))
	if err != nil {
		return answers.NodeAnswer{}, fmt.Errorf("cannot reach the leader, pod %s in namespace %s: %w", pod, operator, err)
	}
	// A replica that has just lost the lease responds with a sentence that names the new leader.
	if said.Status != http.StatusOK {
		return answers.NodeAnswer{}, fmt.Errorf("pod %s responded: %s", pod, said.Line())
	}
	var answer answers.NodeAnswer
	// JSON without Decided is another document or from another version.
	if err := json.Unmarshal(said.Body, &answer); err != nil || answer.Decided == nil {
		return answers.NodeAnswer{}, fmt.Errorf("the response of pod %s cannot be read: use the plugin of the operator's version", pod)
	}
	return answer, nil
}

// leader returns the name of the operator's pod that holds the lease. The holder identity is the pod's name and UID,
// joined by an underscore. An error names the missing flag or right.
func leader(ctx context.Context, c client.Client, operator string) (string, error) {
	lease := &coordinationv1.Lease{}
	err := c.Get(ctx, client.ObjectKey{Namespace: operator, Name: answers.LeaseName}, lease)
	switch {
	case apierrors.IsNotFound(err):
		return "", fmt.Errorf("lease %s does not exist in namespace %s: specify the operator's namespace with --operator-namespace", answers.LeaseName, operator)
	case err != nil:
		return "", fmt.Errorf("reading the leader's lease: %w", err)
	}
	if pod := answers.LeaderOf(lease); pod != "" {
		return pod, nil
	}
	return "", errors.New("the operator has no leader at the moment")
}
