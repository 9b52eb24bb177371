/**
 * The queries of the panels, of the instances that are chosen on the dashboard.
 */
export const rate = (metric, labels = '') => `rate(${metric}{${chosen(labels)}}[$__rate_interval])`;
export const now = (metric, labels = '') => `${metric}{${chosen(labels)}}`;
const chosen = (labels) => ['job=~"$job"', 'instance=~"$instance"', labels].filter(Boolean).join(', ');
export const sum = (by, expression) => `sum by (${by}) (${expression})`;
export const quantile = (q, by, metric, labels = '') =>
  `histogram_quantile(${q}, ${sum(`${by}, le`, rate(`${metric}_bucket`, labels))})`;
