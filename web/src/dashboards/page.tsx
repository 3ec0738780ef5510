export default function DashboardsPage() { return null; }
