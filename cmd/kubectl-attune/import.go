package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/cmd/kubectl-attune/input"
	"attune.io/attune/cmd/kubectl-attune/vpaimport"
	"attune.io/attune/internal/autoscale"
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
	var file string
	vpas := &cobra.Command{
		Use:   "vpa [NAME...]",
		Short: "Print an AttunePolicy for each VerticalPodAutoscaler",
		Long: "Print an AttunePolicy for each VerticalPodAutoscaler, as YAML for kubectl apply. stderr has one sentence for each\n" +
			"setting without a counterpart. Nothing is written to the cluster.\n\n" +
			"It needs permission to list VerticalPodAutoscalers. With permission to list AttunePolicies it also knows which names\n" +
			"are in use. With -f it reads manifests instead of the cluster: YAML documents, lists, and objects of other kinds\n" +
			"between them, which it skips.",
		Example: "  kubectl attune import vpa -A > policies.yaml\n  kubectl attune import vpa web | kubectl apply --dry-run=server --filename -\n" +
			"  helm template shop ./chart | kubectl attune import vpa -f -",
		ValidArgsFunction: env.completeVPAs,
		RunE: func(cmd *cobra.Command, names []string) error {
			if file != "" {
				return importFile(env, file, names)
			}
			return importVPAs(cmd.Context(), env, names)
		},
	}
	vpas.Flags().StringVarP(&file, "filename", "f", "", "YAML file with VerticalPodAutoscalers; - for stdin")
	command.AddCommand(vpas)
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
	return printPolicies(env, vpas, namesOfPolicies(ctx, env, r))
}

// mostManifest limits a file of manifests, in bytes.
const mostManifest = 64 << 20

// importFile prints the policies of the VPAs in a file. It needs no cluster. A VPA without a namespace gets none: as for
// the VPA itself, kubectl apply chooses it.
func importFile(env *environment, path string, names []string) error {
	if len(names) > 0 || env.scope.all || env.scope.selector != "" {
		return errors.New("-f cannot be combined with names, -A or -l: it reads all VerticalPodAutoscalers of the file")
	}
	text, err := readManifest(env, path)
	if err != nil {
		return fmt.Errorf("reading the VerticalPodAutoscalers: %w", err)
	}
	vpas, notes, err := input.ParseVPAs(text)
	if path == "-" {
		path = "stdin"
	}
	switch {
	case err != nil && bytes.Contains(text, []byte("{{")):
		return fmt.Errorf("%s: %w. Render a template first, e.g. with helm template", path, err)
	case err != nil:
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, note := range notes {
		env.printNote("%s: %s", path, note)
	}
	return printPolicies(env, vpas, takenNames{})
}

// readManifest reads a file, or stdin for -.
func readManifest(env *environment, path string) ([]byte, error) {
	from := env.In
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer func() { _ = file.Close() }() // it was only read
		from = file
	}
	text, err := io.ReadAll(io.LimitReader(from, mostManifest+1))
	if err == nil && len(text) > mostManifest {
		err = errors.New("it has more than 64 MiB: split it")
	}
	return text, err
}

// printPolicies prints the policies of VPAs, with names that are not taken.
func printPolicies(env *environment, vpas []unstructured.Unstructured, taken takenNames) error {
	// The operator's own VPAs are derived from policies.
	vpas = slices.DeleteFunc(vpas, func(vpa unstructured.Unstructured) bool { return autoscale.Ours(&vpa) })
	list := policyList{APIVersion: "v1", Kind: "List", Items: []*input.Written{}}
	sizedBy := map[string]string{}
	for i := range vpas {
		made, notes := vpaimport.Import(&vpas[i])
		for _, note := range notes {
			env.printNote("%s", note)
		}
		if made != nil {
			taken.choose(env, &made.Metadata, vpas[i].GetName())
			list.Items = append(list.Items, made)
			noteShared(env, sizedBy, made)
		}
	}
	if len(list.Items) == 0 && len(vpas) == 0 {
		env.printNote("no VerticalPodAutoscalers found")
	} else if len(list.Items) > 0 {
		list.advise(env)
	}
	return env.print(list)
}

// noteShared notes that two policies select one workload. sizedBy has the first policy of each.
func noteShared(env *environment, sizedBy map[string]string, made *input.Written) {
	of := made.Spec.TargetRef
	workload := strings.TrimPrefix(made.Metadata.Namespace+"/", "/") + string(of.Kind) + "/" + of.Name
	if first, twice := sizedBy[workload]; twice {
		env.printNote("AttunePolicies %s and %s both select %s: the one that you apply first takes precedence. VPA uses the oldest VerticalPodAutoscaler", first, made.Metadata.Name, workload)
		return
	}
	sizedBy[workload] = made.Metadata.Name
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

// choose gives a printed policy a free name. vpa is the name of its VPA.
func (n takenNames) choose(env *environment, of *input.Metadata, vpa string) {
	first := of.Name
	for n[*of] {
		of.Name += "-vpa"
	}
	n[*of] = true
	if of.Name != first {
		env.printNote("VerticalPodAutoscaler %s/%s: an AttunePolicy named %s already exists, so this one is named %s: delete one of them if both select the same workload",
			of.Namespace, vpa, first, of.Name)
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
	env.printNote("a VerticalPodAutoscaler lowers memory; attune lowers it only with memory.allowDecrease: true. Add it to spec.memory of policies whose containers may have less")
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
