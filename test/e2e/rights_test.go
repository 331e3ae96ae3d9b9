package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/test/cluster"
	"attune.io/attune/test/deploy"
	"attune.io/attune/test/rights"
)

// rightsVariable names the folder where each process notes what the operator did in its cluster, and what it might do.
const rightsVariable = "ATTUNE_E2E_RIGHTS"

// unusedFor are rights that no story needs, each with its reason.
var unusedFor = map[string]string{
	operatorsAccount + " delete attunerecommendations.attune.io": "a workload is forgotten seven days after it is gone",
	operatorsAccount + " patch events.events.k8s.io":             "an event is counted up where it is told again within minutes",
	operatorsAccount + "-scraper get nodes/metrics":              "kubelets ask whether it may; nobody asks the API server for it",
}

const operatorsAccount = "system:serviceaccount:" + deploy.Namespace + ":attune"

// reasonForUnused is why a right that no story used is needed; empty: it is not. Where an API server can, a watch begins
// with the list.
func reasonForUnused(g rights.Grant, uses []rights.Use) string {
	if g.Rule.Verbs[0] == "list" {
		watch := g
		watch.Rule.Verbs = []string{"watch"}
		if len(rights.Unused([]rights.Grant{watch}, uses)) == 0 {
			return "older API servers have no other way"
		}
	}
	return unusedFor[g.String()]
}

// recordRights has the API server note what the operator asks for. Processes that this one starts note it beside.
func recordRights(dir string, options *cluster.Options) error {
	if os.Getenv(rightsVariable) == "" {
		if err := os.Setenv(rightsVariable, dir); err != nil {
			return err
		}
	}
	policy := filepath.Join(dir, "audit.yaml")
	if err := os.WriteFile(policy, []byte(rights.Policy(deploy.Namespace)), 0o600); err != nil {
		return err
	}
	options.APIServerArgs = append(options.APIServerArgs, "--audit-policy-file="+policy, "--audit-log-path="+recordFile("audit", "log"))
	return nil
}

// recordFile is a file of this process for the one that looks at all of them.
func recordFile(what, kind string) string {
	return filepath.Join(os.Getenv(rightsVariable), fmt.Sprintf("%s-%s-%d.%s", what, only(), os.Getpid(), kind))
}

// grantsRecorded counts how often recordGrants was called.
var grantsRecorded int

// recordGrants notes what the operator may do now. A story that installs it with other rights calls it before.
func recordGrants() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	bound, err := bindings(ctx)
	if err != nil {
		return err
	}
	body, err := json.Marshal(rights.Grants(deploy.Namespace, bound))
	if err != nil {
		return err
	}
	grantsRecorded++
	return os.WriteFile(recordFile(fmt.Sprintf("grants-%d", grantsRecorded), "json"), body, 0o600)
}

// bindings are the roles of the cluster as they are bound.
func bindings(ctx context.Context) (all []rights.Bound, err error) {
	var wide rbacv1.ClusterRoleBindingList
	var narrow rbacv1.RoleBindingList
	if err := errors.Join(env.client.List(ctx, &wide), env.client.List(ctx, &narrow)); err != nil {
		return nil, err
	}
	for _, b := range wide.Items {
		rules, err := rulesOf(ctx, b.RoleRef, "")
		if err != nil {
			return nil, err
		}
		all = append(all, rights.Bound{Subjects: b.Subjects, Rules: rules})
	}
	for _, b := range narrow.Items {
		rules, err := rulesOf(ctx, b.RoleRef, b.Namespace)
		if err != nil {
			return nil, err
		}
		all = append(all, rights.Bound{Namespace: b.Namespace, Subjects: b.Subjects, Rules: rules})
	}
	return all, nil
}

func rulesOf(ctx context.Context, ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, error) {
	if ref.Kind == "ClusterRole" {
		role := &rbacv1.ClusterRole{}
		err := env.client.Get(ctx, client.ObjectKey{Name: ref.Name}, role)
		return role.Rules, client.IgnoreNotFound(err)
	}
	role := &rbacv1.Role{}
	err := env.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: ref.Name}, role)
	return role.Rules, client.IgnoreNotFound(err)
}

// wholeRun: all stories were played, so that every right must have been needed.
func wholeRun() bool {
	run := flag.Lookup("test.run").Value.String()
	return only() == "" && (run == "" || run == ".") && os.Getenv(rightsVariable) != ""
}

// judgeRights of all clusters: what was refused to the operator, and what it was granted for nothing.
func judgeRights() error {
	dir := os.Getenv(rightsVariable)
	var uses []rights.Use
	var problems []error
	logs, err := filepath.Glob(filepath.Join(dir, "audit-*.log"))
	if err != nil {
		return err
	}
	for _, name := range logs {
		file, err := os.Open(name)
		if err != nil {
			return err
		}
		read, err := rights.Read(file)
		if err = errors.Join(err, file.Close()); err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(name), err)
		}
		uses = append(uses, read...)
		if strings.HasPrefix(filepath.Base(name), "audit-upheavals") {
			continue // upgrades there take rights away, which pods of the release before still use
		}
		taken, err := rightsTaken(strings.NewReplacer("audit-", "uninstalled-", ".log", ".time").Replace(filepath.Base(name)))
		if err != nil {
			return err
		}
		for _, use := range rights.Refused(read, taken) {
			if use.Namespace == comesAndGoes {
				continue // its Roles go with it
			}
			problems = append(problems, fmt.Errorf("refused: %s", use))
		}
	}
	grants, err := recordedGrants(dir)
	if err != nil {
		return err
	}
	for _, g := range rights.Unused(grants, uses) {
		if reasonForUnused(g, uses) == "" {
			problems = append(problems, fmt.Errorf("granted, and used by no story: %s", g))
		}
	}
	fmt.Printf("rights: %d granted, %d uses, %d clusters\n", len(grants), len(uses), len(logs))
	return errors.Join(problems...)
}

// uninstall the release, and note when: the operator's rights are deleted while its pods still end.
func uninstall(t *testing.T) {
	t.Helper()
	if os.Getenv(rightsVariable) != "" {
		at, err := time.Now().MarshalText()
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(recordFile("uninstalled", "time"), at, 0o600))
	}
	require.NoError(t, deploy.Uninstall(t.Context(), env.cluster, nil))
}

// rightsTaken is when the release was uninstalled, as the file of this name has it; zero: it was not.
func rightsTaken(name string) (at time.Time, err error) {
	body, err := os.ReadFile(filepath.Join(os.Getenv(rightsVariable), name))
	if errors.Is(err, os.ErrNotExist) {
		return time.Time{}, nil
	}
	if err == nil {
		err = at.UnmarshalText(body)
	}
	return at, err
}

// recordedGrants are those of all clusters, each once.
func recordedGrants(dir string) (grants []rights.Grant, err error) {
	names, err := filepath.Glob(filepath.Join(dir, "grants-*.json"))
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, name := range names {
		body, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		var recordFile []rights.Grant
		if err := json.Unmarshal(body, &recordFile); err != nil {
			return nil, err
		}
		for _, g := range recordFile {
			if !seen[g.String()] {
				seen[g.String()] = true
				grants = append(grants, g)
			}
		}
	}
	if len(grants) == 0 {
		return nil, errors.New("no rights of the operator were noted")
	}
	return grants, nil
}
