// Package wizard writes an AttunePolicy from the answers to four questions, each by Enter or a flag. It applies
// nothing.
//
//   - questions.go: the questions, and how an answer changes the policy.
//   - wizard.go: the command, which asks, names and writes the policy, and shows a backtest of it.
//
// Questions and notes go to stderr. Only the policy goes to stdout, or into a file.
package wizard

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/cmd/kubectl-attune/input"
	"attune.io/attune/internal/policy"
)

// Cluster provides data of the cluster. An error only adds a sentence, and never prevents the policy.
type Cluster interface {
	// Namespace returns the namespace of -n, or of the context.
	Namespace() (string, error)
	// Selection returns what the policy would find in its namespace today.
	Selection(ctx context.Context, p *v1alpha1.AttunePolicy) (Selection, error)
	// Backtest replays the policy on the usage of its workloads and describes the result. address is a Prometheus
	// server. If empty, it uses the server of the policy's defaults, or the stored histories.
	Backtest(ctx context.Context, p *v1alpha1.AttunePolicy, address string) (string, error)
}

// Selection describes a policy's namespace.
type Selection struct {
	// Workloads are the selected workloads, as Kind/name, sorted.
	Workloads []string
	// Lost are the selected workloads that another policy keeps, with its name and the reason, sorted.
	Lost []string
	// Exists is the target of an existing policy with this name; nil without one. It may be set even if the rest is
	// not known.
	Exists *v1alpha1.TargetRef
}

// Terminal has the streams and the output format of the wizard.
type Terminal struct {
	In       io.Reader
	Out, Err io.Writer
	// Asks is true if stdin is a terminal, so that a user can answer questions.
	Asks bool
	// Format returns a policy in the format of -o.
	Format func(p *input.Written) (string, error)
}

// wizard is one run.
type wizard struct {
	Terminal
	cluster Cluster
	// given has the answers of flags by their names.
	given map[string]*string
	// name is the name of the policy, file the file to write, address a server; empty if not given.
	name, file, address string
}

// New returns the command wizard.
func New(terminal func() Terminal, cluster Cluster) *cobra.Command {
	w := &wizard{cluster: cluster, given: map[string]*string{}}
	command := &cobra.Command{
		Use:   "wizard [-f FILE]",
		Short: "Create an AttunePolicy from four questions",
		Long: "Create an AttunePolicy from four questions: which workloads, which mode, which strategy, and how to resize pods. Enter\n" +
			"accepts the answer in brackets. Each question has a flag, so that scripts need no terminal. The policy is written to\n" +
			"stdout, or with -f to a new file. Nothing is applied. If the selected workloads have usage data, a backtest follows.",
		Example: "  kubectl attune wizard -n shop -f policy.yaml\n" +
			"  kubectl attune wizard --workloads deployment,tier=api --mode Auto --strategy Adaptive-Low --resizes OneByOne > policy.yaml",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			w.Terminal = terminal()
			return w.run(cmd.Context(), cmd.Flags().Changed)
		},
	}
	f := command.Flags()
	for i := range questions {
		q := &questions[i]
		usage := q.hint
		if usage == "" {
			usage = "One of " + q.names()
		}
		w.given[q.flag] = f.String(q.flag, "", usage)
		// The only error is an unknown flag.
		_ = command.RegisterFlagCompletionFunc(q.flag, cobra.FixedCompletions(q.optionNames(), cobra.ShellCompDirectiveNoFileComp))
	}
	f.StringVar(&w.name, "name", "", "Name of the policy (default: derived from the workloads)")
	f.StringVarP(&w.file, "file", "f", "", "File to write the policy to; it must not exist (default: stdout)")
	f.StringVar(&w.address, "address", "", "Prometheus server for the backtest, as in backtest --from prometheus (default: the server of the defaults, otherwise the histories in AttuneRecommendations)")
	return command
}

// run asks the questions without a flag, writes the policy, and prints notes about it.
func (w *wizard) run(ctx context.Context, given func(flag string) bool) error {
	if err := w.check(given); err != nil {
		return err
	}
	namespace, err := w.cluster.Namespace()
	if err != nil {
		return err
	}
	spec, err := w.ask(ctx, namespace, given)
	if err != nil {
		return err
	}
	p := &v1alpha1.AttunePolicy{ObjectMeta: metav1.ObjectMeta{Name: cmp.Or(w.name, nameOf(spec.TargetRef)), Namespace: namespace}, Spec: *spec}
	found, unread := w.cluster.Selection(ctx, p)
	if w.name == "" && found.replaced(spec.TargetRef) {
		return fmt.Errorf("policy %s in namespace %s has another target, %s, and kubectl apply would replace it: specify another name with --name", p.Name, p.Namespace, spelled(*found.Exists))
	}
	if err := w.write(input.WritePolicy(input.Metadata{Name: p.Name, Namespace: p.Namespace}, p.Spec)); err != nil {
		return err
	}
	w.printNotes(ctx, p, found, unread)
	return ctx.Err()
}

// check returns an error about flags that cannot work, before the first question.
func (w *wizard) check(given func(string) bool) error {
	if problems := validation.IsDNS1123Subdomain(w.name); w.name != "" && len(problems) > 0 {
		return fmt.Errorf("--name %q is not a valid object name: write e.g. web", w.name)
	}
	if _, err := os.Lstat(w.file); w.file != "" && err == nil {
		return fileExistsError(w.file)
	}
	var missing []string
	for i := range questions {
		q := &questions[i]
		if !given(q.flag) {
			missing = append(missing, "--"+q.flag+" "+q.usual)
			continue
		}
		if err := q.applyAnswer(&v1alpha1.AttunePolicySpec{}, *w.given[q.flag]); err != nil {
			return fmt.Errorf("--%s %w", q.flag, err)
		}
	}
	if !w.Asks && len(missing) > 0 {
		return fmt.Errorf("stdin is not a terminal: answer all questions with flags, e.g. %s", strings.Join(missing, " "))
	}
	return nil
}

func fileExistsError(file string) error {
	return fmt.Errorf("%s already exists: specify another file with -f, or delete it", file)
}

// ask asks the questions that no flag answers.
func (w *wizard) ask(ctx context.Context, namespace string, given func(string) bool) (*v1alpha1.AttunePolicySpec, error) {
	spec, lines := &v1alpha1.AttunePolicySpec{}, linesOf(ctx, w.In)
	for i := range questions {
		q := &questions[i]
		if given(q.flag) {
			if err := q.fit(spec, *w.given[q.flag]); err != nil {
				return nil, fmt.Errorf("--%s: %w", q.flag, err)
			}
			continue
		}
		for {
			fmt.Fprint(w.Err, q.text(i+1, namespace))
			line, err := next(ctx, lines)
			if err != nil {
				return nil, fmt.Errorf("%w before --%s was answered: nothing was written", err, q.flag)
			}
			err = q.fit(spec, line)
			if err == nil {
				break
			}
			w.say("     %v", err)
		}
	}
	return spec, nil
}

// fit applies an answer that is valid together with the earlier ones. Otherwise spec does not change.
func (q *question) fit(spec *v1alpha1.AttunePolicySpec, answer string) error {
	with := spec.DeepCopy()
	if err := q.applyAnswer(with, answer); err != nil {
		return err
	}
	if _, err := policy.ResolveNew(nil, nil, &v1alpha1.AttunePolicy{Spec: *with}, policy.Operator{SourceNamespaces: []string{"*"}}); err != nil {
		return err
	}
	*spec = *with
	return nil
}

// linesOf reads lines until the context ends. The goroutine may block in a read of the terminal; it ends with the
// process.
func linesOf(ctx context.Context, in io.Reader) <-chan string {
	lines := make(chan string)
	go func() {
		defer close(lines)
		for scanner := bufio.NewScanner(in); scanner.Scan(); {
			select {
			case lines <- scanner.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	return lines
}

// next returns the next line of the terminal. An interrupt ends the wait.
func next(ctx context.Context, lines <-chan string) (string, error) {
	select {
	case line, more := <-lines:
		if !more {
			return "", errors.New("stdin ended")
		}
		return line, nil
	case <-ctx.Done():
		return "", errors.New("interrupted")
	}
}

// write writes the policy to stdout or into a new file.
func (w *wizard) write(p *input.Written) error {
	text, err := w.Format(p)
	if err != nil {
		return err
	}
	if w.file == "" {
		_, err = io.WriteString(w.Out, text)
		return err
	}
	file, err := os.OpenFile(w.file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return fileExistsError(w.file)
	}
	if err != nil {
		return fmt.Errorf("writing the policy: %w", err)
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Close())
}

// mostNamed limits the workloads that a sentence names.
const mostNamed = 5

// printNotes prints notes about the written policy, and how to apply it. unread is the error if the selected workloads
// are not known.
func (w *wizard) printNotes(ctx context.Context, p *v1alpha1.AttunePolicy, found Selection, unread error) {
	switch {
	case unread != nil:
		w.say("the selected workloads are not known, so there is no backtest: %v", unread)
	case len(found.Workloads) == 0:
		w.say("the policy selects no workload in namespace %s", p.Namespace)
	default:
		w.say("the policy selects %s", first(found.Workloads))
	}
	if len(found.Lost) > 0 {
		w.say("other policies take precedence for %s: set spec.weight to change that", first(found.Lost))
	}
	switch {
	case found.replaced(p.Spec.TargetRef):
		w.say("policy %s in namespace %s has another target, %s: kubectl apply replaces it", p.Name, p.Namespace, spelled(*found.Exists))
	case found.Exists != nil:
		w.say("policy %s already exists in namespace %s: kubectl apply changes it", p.Name, p.Namespace)
	}
	if unread == nil {
		w.printBacktest(ctx, p)
	}
	if policy.SizesNewPods(*p.Spec.UpdateStrategy.Type, v1alpha1.Enabled) {
		w.say("new pods are sized only in namespaces with the label, unless the chart's webhook.namespaces is AllButDisabled: kubectl label namespace %s attune.io/inject=enabled", p.Namespace)
	}
	if w.file == "" {
		w.say("nothing was applied: save the policy to a file, then run kubectl apply -f FILE")
		return
	}
	w.say("nothing was applied: run kubectl apply -f %s", quoted(w.file))
}

// printBacktest prints a backtest of the policy on the usage of its workloads.
func (w *wizard) printBacktest(ctx context.Context, p *v1alpha1.AttunePolicy) {
	judged, err := w.cluster.Backtest(ctx, p, w.address)
	if err != nil {
		w.say("no backtest: %v", err)
		return
	}
	w.say("\nBacktest of the policy (attune) and of the templates' current requests (current):\n%s", judged)
}

// first formats the first mostNamed entries of a list for a sentence.
func first(all []string) string {
	text := strings.Join(all[:min(len(all), mostNamed)], ", ")
	if left := len(all) - mostNamed; left > 0 {
		text += fmt.Sprintf(" and %d more", left)
	}
	return text
}

// say prints a sentence on stderr.
func (w *wizard) say(sentence string, args ...any) { fmt.Fprintf(w.Err, sentence+"\n", args...) }

// plain matches paths that a shell needs no quotes for.
var plain = regexp.MustCompile(`^[\w./+,@%-]*$`)

// quoted quotes a path for a shell.
func quoted(path string) string {
	if plain.MatchString(path) {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}

// unnamed matches the characters that nameOf replaces.
var unnamed = regexp.MustCompile(`[^a-z0-9.]`)

// nameOf derives the name of a policy from its target: deployments, deployment-web, or deployment-tier-api for
// tier=api. Different targets get different names if the allowed characters permit it.
func nameOf(target v1alpha1.TargetRef) string {
	kind := strings.ToLower(string(target.Kind))
	words := []string{kind}
	switch {
	case target.Name != "":
		words = append(words, target.Name)
	case target.Selector != nil:
		for _, key := range slices.Sorted(maps.Keys(target.Selector.MatchLabels)) {
			words = append(words, key, target.Selector.MatchLabels[key])
		}
		for _, of := range target.Selector.MatchExpressions {
			words = append(append(words, of.Key, string(of.Operator)), of.Values...)
		}
	}
	name := strings.Join(slices.DeleteFunc(words, func(word string) bool { return word == "" }), "-")
	name = unnamed.ReplaceAllString(strings.ToLower(name), "-")
	if len(words) == 1 || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return kind + "s"
	}
	return name
}

// replaced reports whether a policy with this name exists and has another target.
func (s Selection) replaced(by v1alpha1.TargetRef) bool {
	return s.Exists != nil && !equality.Semantic.DeepEqual(*s.Exists, by)
}

// spelled returns a target in the syntax of --workloads.
func spelled(target v1alpha1.TargetRef) string {
	switch kind := string(target.Kind); {
	case target.Name != "":
		return kind + "/" + target.Name
	case target.Selector != nil:
		return kind + "," + metav1.FormatLabelSelector(target.Selector)
	default:
		return kind
	}
}
