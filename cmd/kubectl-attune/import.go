package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/cmd/kubectl-attune/input"
	"attune.io/attune/cmd/kubectl-attune/vpaimport"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/podview"
)

// newImport returns the command import. Its only subcommand is vpa.
func newImport(env *environment) *cobra.Command {
	command := &cobra.Command{
		Use:   "import",
		Short: "Convert objects of other products to AttunePolicies",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return errors.New("import needs a kind of objects: use kubectl attune import vpa")
		},
	}
	command.AddCommand(&cobra.Command{
		Use:   "vpa [NAME...]",
		Short: "Print an AttunePolicy for each VerticalPodAutoscaler",
		Long: "Print an AttunePolicy for each VerticalPodAutoscaler, as YAML for kubectl apply. stderr has one sentence for each\n" +
			"setting without a counterpart. Nothing is written to the cluster.\n\n" +
			"It needs permission to list VerticalPodAutoscalers. With permission to get workloads it also knows their containers,\n" +
			"and with permission to list AttunePolicies, which names are in use.",
		Example:           "  kubectl attune import vpa -A > policies.yaml\n  kubectl attune import vpa web | kubectl apply --dry-run=server --filename -",
		ValidArgsFunction: env.completeVPAs,
		RunE:              func(cmd *cobra.Command, names []string) error { return importVPAs(cmd.Context(), env, names) },
	})
	return command
}

// policyList is the answer of import. JSON and YAML are a list for kubectl apply: {"apiVersion": "v1", "kind": "List",
// "items": [AttunePolicy …]}.
type policyList struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Items are sorted by namespace and name, or in the order of the arguments; never nil.
	Items []*input.Written `json:"items"`
}

// Human implements document. It writes a YAML document for each policy; -o wide changes nothing.
func (l policyList) Human(bool) (string, error) {
	texts := make([]string, len(l.Items))
	for i, p := range l.Items {
		var err error
		if texts[i], err = p.Human(false); err != nil {
			return "", err
		}
	}
	return strings.Join(texts, "---\n"), nil
}

// importVPAs prints the policies of the named VPAs, or without names of all in the scope.
func importVPAs(ctx context.Context, env *environment, names []string) error {
	r, err := env.reach()
	if err != nil {
		return err
	}
	vpas, err := env.selectVPAs(ctx, r, names)
	if err != nil {
		return err
	}
	taken := namesOfPolicies(ctx, env, r)
	// The operator's own VPAs are derived from policies.
	vpas = slices.DeleteFunc(vpas, func(vpa unstructured.Unstructured) bool { return autoscale.Ours(&vpa) })
	list := policyList{APIVersion: "v1", Kind: "List", Items: []*input.Written{}}
	for i := range vpas {
		made, notes := vpaimport.Import(&vpas[i], containersOf(ctx, r, &vpas[i]))
		for _, note := range notes {
			env.printNote("%s", note)
		}
		if made != nil {
			taken.choose(env, &made.Metadata)
			list.Items = append(list.Items, made)
		}
	}
	if len(list.Items) == 0 {
		env.printNote("no VerticalPodAutoscalers found")
	} else {
		list.advise(env)
	}
	return env.print(list)
}

// takenNames are the names of existing and of printed AttunePolicies.
type takenNames map[input.Metadata]bool

// namesOfPolicies returns the names of the policies in the scope. If the user may not list them, it prints a note.
func namesOfPolicies(ctx context.Context, env *environment, r reach) takenNames {
	var policies v1alpha1.AttunePolicyList
	// A cluster without attune's kinds has no policies.
	if err := r.List(ctx, &policies, client.InNamespace(r.namespace)); err != nil && !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
		env.printNote("cannot list AttunePolicies, so kubectl apply may replace an existing policy of the same name: %v", plain(err))
	}
	names := takenNames{}
	for i := range policies.Items {
		names[input.Metadata{Name: policies.Items[i].Name, Namespace: policies.Items[i].Namespace}] = true
	}
	return names
}

// choose gives a printed policy a free name. Its initial name is the name of its VPA.
func (n takenNames) choose(env *environment, of *input.Metadata) {
	vpa := of.Name
	for n[*of] {
		of.Name += "-vpa"
	}
	n[*of] = true
	if of.Name != vpa {
		env.printNote("VerticalPodAutoscaler %s/%s: an AttunePolicy named %s already exists, so this one is named %s: delete one of them if both select the same workload",
			of.Namespace, vpa, vpa, of.Name)
	}
}

// advise prints what to do with the VPAs. While a policy only recommends, its VPA is the only working autoscaler.
func (l policyList) advise(env *environment) {
	if slices.ContainsFunc(l.Items, (*input.Written).Acts) {
		env.printNote("attune does not resize a workload that a VerticalPodAutoscaler manages: if the printed policy changes pods, " +
			"set the VerticalPodAutoscaler's updateMode to Off, or delete it")
	}
	if slices.ContainsFunc(l.Items, func(p *input.Written) bool { return !p.Acts() }) {
		env.printNote("if the printed policy only recommends, the VerticalPodAutoscaler continues to manage its workload: " +
			"change the policy's updateStrategy.type before you stop the VerticalPodAutoscaler")
	}
	env.printNote("a VerticalPodAutoscaler lowers memory; attune lowers it only with memory.allowDecrease: true")
}

// selectVPAs returns the named VPAs in the order of the command line, or without names all in the scope by namespace
// and name.
func (e *environment) selectVPAs(ctx context.Context, r reach, names []string) ([]unstructured.Unstructured, error) {
	if len(names) > 0 && e.scope.all {
		return nil, errors.New("VerticalPodAutoscaler names cannot be combined with -A: specify the namespace with -n")
	}
	list := newVPAList()
	err := r.List(ctx, list, within(r.namespace, r.selector)...)
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil, errors.New("VerticalPodAutoscalers (autoscaling.k8s.io/v1) are not installed in this cluster: select another cluster with --context")
	}
	if err != nil {
		return nil, fmt.Errorf("listing the VerticalPodAutoscalers: %w", err)
	}
	slices.SortFunc(list.Items, func(a, b unstructured.Unstructured) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	if len(names) == 0 {
		return list.Items, nil
	}
	var named []unstructured.Unstructured
	for _, name := range names {
		at := slices.IndexFunc(list.Items, func(vpa unstructured.Unstructured) bool { return vpa.GetName() == name })
		if at < 0 {
			return nil, fmt.Errorf("VerticalPodAutoscaler %s does not exist in namespace %s: check the name, or choose the namespace with -n", name, r.namespace)
		}
		named = append(named, list.Items[at])
	}
	return named, nil
}

// newVPAList returns an empty list of VPAs, which are read without Go types.
func newVPAList() *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(autoscale.VPAKind)
	return list
}

// containersOf returns the names of the containers of a VPA's workload; nil if it cannot be read.
func containersOf(ctx context.Context, c client.Client, vpa *unstructured.Unstructured) (names []string) {
	id, ok := vpaimport.Target(vpa)
	if !ok {
		return nil
	}
	w, _, err := getWorkload(ctx, c, id)
	if err != nil || w.Template == nil {
		return nil
	}
	return podview.Map(podview.ResizableIn(&w.Template.Spec), func(c *corev1.Container) string { return c.Name })
}
