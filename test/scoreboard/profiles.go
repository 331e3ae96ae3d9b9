package main

import (
	"fmt"
	"io"
	"strings"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/backtest"
)

// profiles of a policy, without one first.
var profiles = []v1alpha1.Profile{"", v1alpha1.ProfileCost, v1alpha1.ProfileBalanced, v1alpha1.ProfileReliability}

// profileStrategies are the strategies that a profile has an effect on.
var profileStrategies = []v1alpha1.Strategy{v1alpha1.StrategyWorkload, v1alpha1.StrategyAdaptive}

// profileBoard has each profile with both strategies.
func profileBoard(name string) (*board, error) {
	b := rulesOf(name)
	for _, strategy := range profileStrategies {
		for _, profile := range profiles {
			settings, err := policy.Defaults(strategy)
			if profile != "" {
				p := &v1alpha1.AttunePolicy{Spec: v1alpha1.AttunePolicySpec{TargetRef: v1alpha1.TargetRef{Kind: v1alpha1.KindDeployment, Name: "any"}}}
				p.Spec.Strategy, p.Spec.Profile = &strategy, &profile
				settings, err = policy.Resolve(nil, nil, p)
			}
			if err != nil {
				return nil, err
			}
			alone := backtest.Alone(settings.Recommender)
			played := backtest.Shipped(name, alone)
			if strategy == v1alpha1.StrategyAdaptive {
				played = backtest.Adaptive(settings.Recommender.Adaptive.Risk, alone)
			}
			played.Name = title(strategy, profile)
			b.strategies = append(b.strategies, played)
			b.tallies = append(b.tallies, backtest.NewTally(played.Name))
		}
	}
	return b, nil
}

func title(strategy v1alpha1.Strategy, profile v1alpha1.Profile) string {
	if profile == "" {
		return string(strategy) + " | not set"
	}
	return string(strategy) + " | `" + string(profile) + "`"
}

// profiles writes the table of a profileBoard in Markdown. The cost of a profile is what it requests, in per cent of the same
// strategy without a profile.
func (b *board) profiles(w io.Writer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "\n#### Profiles on %s\n\n", b.name)
	text.WriteString("| strategy | profile | CPU slack | starved min/day | CPU cost | memory slack | OOM-h/day | memory cost | resizes/day |\n|---|---|--:|--:|--:|--:|--:|--:|--:|\n")
	for i, t := range b.tallies {
		report, plain := t.Report(), b.tallies[i-i%len(profiles)].Report()
		cost := func(r recommender.Resource) string {
			return fmt.Sprintf("%.0f %%", 100*(1-plain.Of[r].FleetSlack)/(1-report.Of[r].FleetSlack))
		}
		fmt.Fprintf(&text, "| %s | %s | %.1f | %s | %s | %.4f | %s | %.2f |\n", report.Name, percent(report.Of[recommender.CPU].FleetSlack), report.StarvedMinutes, cost(recommender.CPU),
			percent(report.Of[recommender.Memory].FleetSlack), report.OOMHours, cost(recommender.Memory), report.Resizes)
	}
	_, err := io.WriteString(w, text.String())
	return err
}
